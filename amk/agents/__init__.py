"""LEARN: agents propose schedules, the gate checks them, measurements and the ledger decide."""
