"""Builds libscrtune.so, the one part of scrtune that is not Python; everything else is in setup.cfg.

Where there is no C compiler scrtune is installed without it: applications on a real SCR run untuned then, and
client/libscr/library.py says what is missing.
"""

import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

_BOUND_WITHIN = "-Wl,-Bsymbolic-functions"


class BuildPreloaded(build_ext):
    """Builds a library for LD_PRELOAD: its name has no tag of a Python, since it has nothing of Python."""

    def get_ext_filename(self, fullname: str) -> str:
        """Where `fullname` is built, below the directory of the build."""
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    def build_extension(self, ext: Extension) -> None:
        """Write the table of levers into the directory of the build, then compile `ext`."""
        table = runpy.run_path("native/levers_table.py")["levers_table"]
        directory = Path(self.build_temp)
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "levers.inc").write_text(table(Path("scr_config/parameters.json")), encoding="ascii")
        ext.include_dirs.append(str(directory))
        # Debian's Python links so that calls of native/observe.c to its own fopen() pass DFTracer by
        linker = self.compiler.linker_so
        self.compiler.set_executable("linker_so", [each for each in linker if each != _BOUND_WITHIN])
        super().build_extension(ext)


class BuildPackage(build_py):
    """The repository root is the package, and this file is no part of it."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """Return the modules of `package` as (package, module, file), without this one."""
        found = super().find_package_modules(package, package_dir)
        return [each for each in found if each[:2] != ("scrtune", "setup")]


LIBRARY = Extension(
    "scrtune.client.libscr.libscrtune",
    sources=sorted(str(path) for path in Path("native").rglob("*.c")),
    depends=[
        "native/scrtune.h",
        "native/scan/scan.h",
        "native/levers_table.py",
        "scr_config/parameters.json",
    ],
    extra_compile_args=["-std=c11", "-O2", "-Wall", "-Wextra", "-Wshadow"],
    libraries=["dl", "pthread"],
    optional=True,
)

setup(
    ext_modules=[LIBRARY] if sys.platform == "linux" else [],
    cmdclass={"build_ext": BuildPreloaded, "build_py": BuildPackage},
)
