"""The archive of sources is the tree of a clone: with docs and tests, and with the links of ``neardup`` as links."""

import os
import shutil

from setuptools import setup
from setuptools.command.sdist import sdist


class Sources(sdist):
    """Copies of the linked folders would be a second text of each module, and a change of one would have no effect."""

    def make_release_tree(self, base_dir, files):
        """Lay the files out, and put the links back."""
        super().make_release_tree(base_dir, files)
        for name in ("stream", "workers"):
            shutil.rmtree(os.path.join(base_dir, "neardup", name))
            os.symlink(os.path.join(os.pardir, name), os.path.join(base_dir, "neardup", name))


setup(cmdclass={"sdist": Sources})
