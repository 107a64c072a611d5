"""Passwords of a spec's databases: from the environment, or from a file only its owner can read."""

from __future__ import annotations

import os
import stat

from semistream.errors import InputError
from semistream.pipeline.spec_fields import MySQLPlace
from semistream.stores.mysql.address import PASSWORD_VARIABLE, Password


def password_of(place: MySQLPlace) -> Password:
    """The password for `place`: its `password_file`, its `password_env`, or the usual variable."""
    if place.password_file is not None:
        return Password(_from_file(place.password_file))
    variable = place.password_env or PASSWORD_VARIABLE
    if place.password_env is not None and variable not in os.environ:
        raise InputError(f"the environment has no {variable}, which password_env names: set it")
    return Password(os.environ.get(variable, ""))


def _from_file(path: str) -> str:
    try:
        # The mode of the open file: that of the path may be another one's a moment later.
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if mode & 0o077:
                raise InputError(
                    f"password file {path} has mode {mode:04o}, so others can read it: chmod 600"
                )
            return file.read().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the password file {path}: {error}") from None
