"""The loop that persists, sends and answers, and what it reads of the store; never decides for a domain."""
