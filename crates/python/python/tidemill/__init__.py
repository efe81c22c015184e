"""Continuous queries in SQL, in a Python program.

>>> import tidemill as tm
>>> with tm.connect() as db:
...     _ = db.sql("CREATE SOURCE ticks (sym TEXT, px DOUBLE) WITH (connector = 'push')")
...     view = db.view("highs", "SELECT sym, max(px) AS high FROM ticks GROUP BY sym")
...     _ = db.push("ticks", [{"sym": "A", "px": 1.5}, {"sym": "A", "px": 2.5}])
...     view.fetchall()
[('A', 2.5)]
"""

from tidemill._database import Database, connect
from tidemill._functions import Function, function
from tidemill._result import Change, Changes, Result
from tidemill._tidemill import Error
from tidemill._view import View

__all__ = ["Change", "Changes", "Database", "Error", "Function", "Result", "View", "connect", "function"]
