"""A real Chromium, driven over its DevTools protocol: opened, clicked, measured, pictured; and what it asked for and
complained of is kept."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp

START = 60.0  # seconds until it listens
ANSWER = 60.0  # seconds until it answers a command

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
         "--disable-component-update", "--disable-sync", "--disable-default-apps", "--hide-scrollbars",
         "--force-color-profile=srgb", "--disable-dev-shm-usage", "--remote-debugging-port=0")  # fmt: skip


class Browser:
    """One process with a profile of its own. `async with Browser(program, folder) as browser`."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._base = ""
        self._tabs: list[Tab] = []

    async def __aenter__(self) -> Browser:
        self._folder.mkdir(parents=True, exist_ok=True)
        told = self._folder / "DevToolsActivePort"
        told.unlink(missing_ok=True)
        profile = f"--user-data-dir={self._folder}"
        command = ["setpriv", "--pdeathsig", "TERM", self._program, *FLAGS, profile, "about:blank"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        for _ in range(int(START / 0.05)):
            if told.exists() and told.read_text().count("\n"):
                break
            assert self._process.poll() is None, (self._folder / "log").read_text()
            await asyncio.sleep(0.05)
        self._base = f"http://127.0.0.1:{told.read_text().splitlines()[0]}"
        self._session = aiohttp.ClientSession()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for tab in self._tabs:
            await tab.close()
        if self._session is not None:
            await self._session.close()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    async def version(self) -> str:
        assert self._session is not None
        async with self._session.get(f"{self._base}/json/version") as answer:
            return str((await answer.json())["Browser"])

    async def tab(self, width: int = 1440, height: int = 1000, dark: bool = False, phone: bool = False) -> Tab:
        """An empty tab of that size."""
        assert self._session is not None
        async with self._session.put(f"{self._base}/json/new?about:blank") as answer:
            where = (await answer.json())["webSocketDebuggerUrl"]
        tab = Tab(await self._session.ws_connect(where, max_msg_size=1 << 28))
        self._tabs.append(tab)
        for domain in ("Page", "Runtime", "Network", "Log"):
            await tab.send(f"{domain}.enable")
        await tab.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                       deviceScaleFactor=2 if phone else 1, mobile=phone)  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await tab.send("Emulation.setEmulatedMedia", features=[scheme])
        return tab


class PageGone(Exception):
    """The page left for another one while an expression was evaluated in it."""


GONE = ("Inspected target navigated or closed", "Execution context was destroyed", "Cannot find context")


class Tab:
    """One page.

    asked      addresses it asked for
    complaints what stands in its console, and exceptions of its scripts
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        self._reading.cancel()
        await self._socket.close()

    async def _read(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                future = self._answers.pop(told["id"], None)
                if future is not None and not future.done():
                    future.set_result(told)
            elif told["method"] == "Network.requestWillBeSent":
                self.asked.append(told["params"]["request"]["url"])
            elif told["method"] == "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(told["params"]["exceptionDetails"])[:600])
            elif told["method"] == "Log.entryAdded":
                entry = told["params"]["entry"]
                self.complaints.append(f"{entry['level']}: {entry['text']} {entry.get('url', '')}")
            elif told["method"] == "Runtime.consoleAPICalled":
                self.complaints.append(json.dumps(told["params"]["args"])[:600])

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        number, future = self._number, asyncio.get_running_loop().create_future()
        self._answers[number] = future
        await self._socket.send_json({"id": number, "method": method, "params": params})
        told = await asyncio.wait_for(future, ANSWER)
        if str(told.get("error", {}).get("message", "")).startswith(GONE):
            raise PageGone(f"{method}: {told['error']}")
        assert "error" not in told, f"{method}: {told['error']}"
        return dict(told["result"])

    async def open(self, address: str) -> None:
        await self.send("Page.navigate", url=address)
        await self.until("document.readyState === 'complete'")

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to."""
        told = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, f"{expression}: {told['exceptionDetails']}"
        return told["result"].get("value")

    async def until(self, expression: str, patience: float = 150.0) -> Any:
        """The first truthy value of an expression, on whatever page; what that shows is in the error when none came."""
        end = asyncio.get_running_loop().time() + patience
        while True:
            try:
                found = await self.value(expression)
            except PageGone:
                found = None
            if found:
                return found
            if asyncio.get_running_loop().time() > end:
                text = await self.value("document.body ? document.body.innerText : ''")
                raise TimeoutError(f"{expression} did not come true\n{text[:3000]}\n{self.complaints}")
            await asyncio.sleep(0.05)

    async def click(self, selector: str, dx: float = 0.5, dy: float = 0.5) -> None:
        """A real click into an element, at these shares of its width and height, once it stands still and nothing lies
        before it: a person does not click at what moves either."""
        box = await self.until(
            f"(async () => {{ const found = () => document.querySelector({json.dumps(selector)}); if (!found()) return;"
            " found().scrollIntoView({block: 'center', behavior: 'instant'});"
            " const box = () => { const b = found()?.getBoundingClientRect();"
            " return b && [b.x, b.y, b.width, b.height]; };"
            " const before = box(); for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);"
            " const now = box(); if (!now || String(before) !== String(now)) return;"
            f" const hit = document.elementFromPoint(now[0] + {dx} * now[2], now[1] + {dy} * now[3]);"
            " if (hit && (found().contains(hit) || hit.contains(found()))) return now; })()"
        )
        await self.click_at(box[0] + dx * box[2], box[1] + dy * box[3])

    async def click_at(self, x: float, y: float) -> None:
        await self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def type(self, text: str) -> None:
        await self.send("Input.insertText", text=text)

    async def key(self, name: str) -> None:
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        params: dict[str, Any] = {"key": name, "code": name, "windowsVirtualKeyCode": codes.get(name, 0)}
        if name == "Enter":
            params["text"] = "\r"
        await self.send("Input.dispatchKeyEvent", type="keyDown", **params)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=name, code=name)

    async def picture(self, path: Path, whole: bool = False) -> None:
        told = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))
