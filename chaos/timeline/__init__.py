"""The timeline of a run as one page of HTML: pictures and tables in it, no scripts, nothing from elsewhere."""
