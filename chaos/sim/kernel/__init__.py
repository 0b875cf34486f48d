"""A machine room on virtual time: loop, network, disks, register, classifier; knows no plan, no client and no rule."""
