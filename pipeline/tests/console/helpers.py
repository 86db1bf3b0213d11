"""What the steps of the console have in common."""

import os
import re
import subprocess
import time

from playwright.sync_api import expect

SERVER = os.environ["PMDNS_SERVER"]
# A text that would run a script where somebody made markup of it, with a character that turns what follows around.
RAW = "<img src=x onerror=alert(1)>\u202e"
# The same as the console writes it.
SHOWN = RAW[:-1] + r"\u{202e}"
TAGS = "main img, main script, main iframe, main object"


def dig(name, server=SERVER):
    """The status of the answer."""
    command = ["dig", "+tries=3", "+time=2", f"@{server}", name, "A"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.search(r"status: (\w+)", text).group(1)


def dnsperf(names, rate):
    """Asks for the names of a file, so many a second, until it is killed."""
    command = ["dnsperf", "-s", SERVER, "-d", os.environ[names], "-l", "600", "-Q", str(rate)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def pmdns(*words):
    """What a command of pmdns prints."""
    command = [os.environ["PMDNS_BINARY"], *words, "--socket", os.environ["PMDNS_SOCKET"]]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def until(what, is_true):
    """Waits until it is true: half a minute at most."""
    for _ in range(300):
        if is_true():
            return
        time.sleep(0.1)
    raise AssertionError(f"waited in vain: {what}")


def go(page, name):
    """Goes to a page of the console, which changes some time after the click."""
    page.get_by_role("link", name=name, exact=True).click()
    expect(page.locator("main > section:not([hidden])")).to_have_attribute("aria-label", name)
