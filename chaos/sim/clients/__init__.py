"""Clients of the pair, the product's own: what each role asks, and what it writes down of the answers; never strikes
anything.
"""
