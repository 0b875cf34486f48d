"""Calls about messages: send, take, settle, answer, stage; never decides what they come to."""
