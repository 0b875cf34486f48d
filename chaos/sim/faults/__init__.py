"""Everything that can go wrong, one class a kind: what it strikes, when it is over; never says what must hold then."""
