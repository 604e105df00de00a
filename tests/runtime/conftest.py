"""Lets the tests here import `fake_driver`, which pytest's importlib mode does not put on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
