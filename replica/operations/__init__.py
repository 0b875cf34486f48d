"""What an operator sees: status, events, forecasts, metrics; never decides for a domain."""
