"""Say what must hold, while a run lasts and when it is over, and write down what was met; never change what happens."""
