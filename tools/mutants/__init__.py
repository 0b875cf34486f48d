"""Plants small bugs at random in code that has been imported, and shows which of them no test sees; changes no file."""
