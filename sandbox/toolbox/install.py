"""Runs in the default image while the toolbox is built: puts a package where the toolbox's Python imports it from.

`install.py TOP PACKAGE`
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

from collect import compile_folder

top, package = map(Path, sys.argv[1:])
target = top / "lib" / Path(sysconfig.get_path("stdlib")).name / package.name
shutil.copytree(package, target)
compile_folder(target)
