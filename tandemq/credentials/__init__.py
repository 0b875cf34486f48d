"""Who somebody is, by certificates: names, files, channels, an authority for developers, and why a connection fails.

Nobody who has no credentials imports more than this page.
"""
