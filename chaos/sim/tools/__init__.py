"""What one calls: campaigns, hunts, shrinking, replaying, pictures, reports. Decides what is tried and shown, and never
what happens in a run.
"""
