"""Builds one run from its plan and leads it through its phases; never says what is drawn, and judges nothing itself."""
