"""Runs in the default image while the toolbox is built: puts packages where the toolbox's Python imports them from.

`install.py TOP PACKAGE…`
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from collect import compile_folder

top, *packages = map(Path, sys.argv[1:])
for package in packages:
    target = top / "lib" / Path(sysconfig.get_path("stdlib")).name / package.name
    shutil.copytree(package, target, ignore=shutil.ignore_patterns("__pycache__"))
    compile_folder(target)
