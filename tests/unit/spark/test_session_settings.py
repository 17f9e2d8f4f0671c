"""Settings of a session that Firn starts, without starting one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import firn
from firn.spark.session.session import _python_path, local_settings


def test_the_settings_name_a_file_for_the_log_that_is_there():
    options = local_settings("local[1]", "test")["spark.driver.extraJavaOptions"]
    (found,) = re.findall(r"configurationFile=file://(\S+)", options)
    assert Path(found).is_file()


def test_workers_import_the_firn_of_this_process():
    first = Path(_python_path().split(os.pathsep)[0])
    assert first / "firn" / "__init__.py" == Path(firn.__file__)
