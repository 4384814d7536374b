"""QEMU machines with CXL devices: booted, spoken to over a virtio port, and ended.

What they share has no name in any file system: memory and sockets are handed to QEMU as file
descriptors, so that nothing is left behind however the driver ends."""

import ctypes
import os
import re
import signal
import socket
import subprocess
import threading
import time

BOOT_SECONDS = 180
LIBRARY_FOLDERS = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu",
                   "usr/lib/x86_64-linux-gnu/pulseaudio"]
PR_SET_PDEATHSIG = 1


class Failure(Exception):
    """A guest did not behave as expected; the text says how."""


class Command:
    """One command in a guest: its lines as they come, and its status."""

    def __init__(self, host, text, lock):
        self.host, self.text = host, text
        self.lines, self.status, self.lost = [], None, False
        self.changed = threading.Condition(lock)

    def output(self):
        return "\n".join(self.lines)

    def _until(self, there, seconds, what):
        with self.changed:
            found = self.changed.wait_for(lambda: there() or self.ended(), seconds) and there()
        if not found:
            reason = ("the machine is gone" if self.lost else f"not within {seconds} s"
                      if self.status is None else f"it ended with status {self.status}")
            raise Failure(f"{self.host}: {self.text}: {what}: {reason}")
        return found

    def ended(self):
        return self.lost or self.status is not None

    def wait(self, seconds):
        """Its status, when it has ended."""
        self._until(lambda: self.status is not None, seconds, "its end")
        return self.status

    def wait_for(self, pattern, seconds):
        """The first line that matches, while it runs or after."""
        search = lambda: next(filter(None, (re.search(pattern, line) for line in self.lines)), None)
        return self._until(search, seconds, f"a line like '{pattern}'")


class Machine:
    def __init__(self, name, number, qemu, say):
        self.name, self.number, self.qemu, self.say = name, number, qemu, say
        self.process = self.channel = None
        self.lock = threading.RLock()
        self.commands, self.next_id = {}, 1

    def boot(self):
        """Starts QEMU; `ready` waits until the guest takes commands."""
        self.channel, theirs = socket.socketpair()
        self.commands, self.next_id = {"0": Command(self.name, "boot", self.lock)}, 1
        with theirs, open(self.qemu.log_of(self.name), "ab") as log:
            self.process = subprocess.Popen(
                self.qemu.command(self.name, self.number, theirs.fileno()), stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, preexec_fn=_end_with_parent,
                pass_fds=[theirs.fileno(), *self.qemu.shared_descriptors(self.number)])
        threading.Thread(target=self._listen, args=(self.channel, self.commands), daemon=True).start()

    def ready(self):
        try:
            self.commands["0"].wait(BOOT_SECONDS)
        except Failure as failure:
            text = self.qemu.log_of(self.name).read_text(errors="replace")
            raise Failure(f"{failure}; its console ends:\n{text[-2000:]}") from failure

    def start(self, command, seconds=120):
        """Runs it in the guest, which ends it after so many seconds."""
        with self.lock:
            number = str(self.next_id)
            self.next_id += 1
            started = self.commands[number] = Command(self.name, command, self.lock)
        self.say(self.name, f"$ {command}")
        try:
            self.channel.sendall(f"{number} {seconds} {command}\n".encode())
        except OSError as error:
            raise Failure(f"{self.name}: {command}: the machine is gone") from error
        return started

    def kill(self):
        """Ends the machine like a power failure."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _listen(self, channel, commands):
        """Of one boot, until the machine is gone."""
        with channel.makefile("rb") as stream:
            for line in stream:
                self._take(commands, line.decode(errors="replace").rstrip("\r\n"))
        with self.lock:
            for command in commands.values():
                command.lost = command.status is None
                command.changed.notify_all()

    def _take(self, commands, line):
        number, _, text = line.partition(" ")
        with self.lock:
            command = commands.get(number)
            if not command or not text:
                return
            status = re.fullmatch(r"%status (\d+)", text)
            if status:
                command.status = int(status.group(1))
            else:
                command.lines.append(text)
                self.say(self.name, text)
            command.changed.notify_all()


def _end_with_parent():
    """In the child: no machine outlives a driver that is killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Qemu:
    """What all machines are made of. `parts`: those that are a kind's own."""

    def __init__(self, store, initrd, logs, accelerator):
        self.host, self.kernel = store.root("host"), store.root("kernel")
        self.initrd, self.logs, self.accelerator = initrd, logs, accelerator

    def close(self):
        pass

    def log_of(self, name):
        return self.logs / f"{name}.log"

    def shared_descriptors(self, _number):
        return []

    def command(self, name, number, channel):
        loader = self.host / "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
        folders = ":".join(str(self.host / folder) for folder in LIBRARY_FOLDERS)
        kernel = next((self.kernel / "boot").glob("vmlinuz-*"))
        return [str(part) for part in [
            loader, "--library-path", folders, self.host / "usr/bin/qemu-system-x86_64",
            "-L", self.host / "usr/share/seabios", "-L", self.host / "usr/share/qemu",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            # A kernel that sees a hypervisor cannot invalidate caches and commits no region.
            "-accel", self.accelerator, "-cpu", "max,hypervisor=off",
            "-kernel", kernel, "-initrd", self.initrd,
            "-append", f"console=ttyS0 quiet panic=-1 host={name} number={number}",
            "-serial", "stdio", "-chardev", f"socket,id=driver,fd={channel}",
            "-device", "virtio-serial-pci,bus=pcie.0", "-device", "virtserialport,chardev=driver,nr=1",
            *self.parts(number)]]

    @staticmethod
    def cxl(windows, devices):
        """Each device below a host bridge of its own, with a window of its own.

        `windows`: their bytes; `devices`: for each its memory backends and options of cxl-type3."""
        machine, parts = "q35,cxl=on,usb=off", []
        for i, (size, (backends, device)) in enumerate(zip(windows, devices)):
            bridge, port = f"bridge{i}", f"port{i}"
            machine += f",cxl-fmw.{i}.targets.0={bridge},cxl-fmw.{i}.size={size}"
            for backend in backends:
                parts += ["-object", backend]
            parts += ["-device", f"pxb-cxl,bus_nr={12 + 64 * i},bus=pcie.0,id={bridge}",
                      "-device", f"cxl-rp,port=0,bus={bridge},id={port},chassis=0,slot={i + 2}",
                      "-device", f"cxl-type3,bus={port},id=device{i},sn={i + 1},{device}"]
        return ["-machine", machine, *parts]


class TwoHosts(Qemu):
    """Two machines: the same two devices with volatile memory, and a wire between them."""

    def __init__(self, store, initrd, logs, accelerator, device_bytes):
        super().__init__(store, initrd, logs, accelerator)
        self.device_bytes = device_bytes
        self.devices = [os.memfd_create(f"penstock-cxl-{i}") for i in range(2)]
        for device in self.devices:
            os.truncate(device, device_bytes)
        self.wire = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    def close(self):
        for device in self.devices:
            os.close(device)
        for end in self.wire:
            end.close()

    def shared_descriptors(self, number):
        return [*self.devices, self.wire[number - 1].fileno()]

    def parts(self, number):
        memories = [([f"memory-backend-file,id=memory{i},share=on,mem-path=/proc/self/fd/{device},"
                      f"size={self.device_bytes}"], f"volatile-memdev=memory{i}")
                    for i, device in enumerate(self.devices)]
        return ["-smp", "1", "-m", "768M",
                "-netdev", f"dgram,id=wire,local.type=fd,local.str={self.wire[number - 1].fileno()}",
                "-device", f"virtio-net-pci,bus=pcie.0,netdev=wire,mac=52:54:00:00:00:0{number},romfile=",
                *self.cxl([self.device_bytes] * 2, memories)]


class NumaHost(Qemu):
    """One machine: two NUMA nodes with a CPU each, a device with volatile memory, and one with
    persistent memory."""

    def __init__(self, store, initrd, logs, accelerator, device_bytes):
        super().__init__(store, initrd, logs, accelerator)
        self.device_bytes = device_bytes

    def parts(self, _number):
        nodes = []
        for i in range(2):
            nodes += ["-object", f"memory-backend-ram,id=ram{i},size=384M",
                      "-numa", f"node,nodeid={i},cpus={i},memdev=ram{i}"]
        memory = f"memory-backend-ram,share=on,size={self.device_bytes},id="
        devices = [([f"{memory}memory0"], "volatile-memdev=memory0"),
                   ([f"{memory}memory1", "memory-backend-ram,share=on,size=1M,id=labels"],
                    "persistent-memdev=memory1,lsa=labels")]
        return ["-smp", "2,sockets=2", "-m", "768M", *nodes, "-numa", "dist,src=0,dst=1,val=21",
                *self.cxl([self.device_bytes] * 2, devices)]
