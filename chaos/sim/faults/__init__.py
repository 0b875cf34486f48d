"""Everything that can go wrong, one class a kind: whom it strikes, when it is over; never says what must hold then."""
