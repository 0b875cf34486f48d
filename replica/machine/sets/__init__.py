"""Sets of indexes, pages of them, schedules and packed columns; they never know what they count."""
