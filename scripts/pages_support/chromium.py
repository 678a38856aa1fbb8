# SPDX-License-Identifier: Apache-2.0
"""Headless Chromium, which opens pages from the disk."""

import shutil
import subprocess
import tempfile

# Debian's name first.
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def chromium(zoom, window, *arguments):
    """Runs it at a zoom in a window of (width, height) CSS pixels; returns what it prints."""
    with tempfile.TemporaryDirectory() as profile:
        command = [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   f"--user-data-dir={profile}", f"--window-size={window[0]},{window[1]}",
                   f"--force-device-scale-factor={zoom}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
