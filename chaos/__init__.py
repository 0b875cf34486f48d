"""Tools that hurt a pair and check what survived: processes, faults, workloads, history, checker, drills, simulator."""
