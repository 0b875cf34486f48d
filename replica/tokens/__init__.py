"""By which keys bearer tokens are believed, and whose they are; never decides what that one may do."""
