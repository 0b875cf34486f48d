"""What a member keeps on disk: the LMDB store, the record formats and a memory double with the same contract."""
