"""Makes an invoice of every order."""
