"""Who may be master: pure detector, epochs and promotion tables; classifiers, witness and other authorities."""
