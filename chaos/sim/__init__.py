"""Whole pairs in one process, from a seed: the product's own code on a clock, a network and disks that obey a plan."""
