"""One domain at one member, of its parts: events in, effects out; never touches the world."""
