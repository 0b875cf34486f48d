"""What one calls: campaigns, hunts, shrinking, replaying, pictures, reports. Decides what is tried and printed, and
never what happens in a run.
"""
