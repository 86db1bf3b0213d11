"""Asks BIND, Unbound and dnsdist for the cases of rdata.txt or replies.txt, and prints the file with their verdicts.

Usage: ask_servers.py FILE. It is their only upstream, on 127.0.0.1 port 25400, and starts them itself, without DNSSEC, on the ports
behind it. Needs the packages bind9, unbound and dnsdist.
"""
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

PORT = 25400
CONFIGS = {
    "named": (
        ["named", "-g", "-c"],
        "options {{ directory \"{folder}\"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n"
        " pid-file none; session-keyfile none; forwarders {{ 127.0.0.1 port {upstream}; }}; forward only;\n"
        " dnssec-validation no; }};\ncontrols {{ }};\n",
    ),
    "unbound": (
        ["unbound", "-d", "-c"],
        "server:\n interface: 127.0.0.1\n port: {port}\n do-daemonize: no\n username: \"\"\n chroot: \"\"\n pidfile: \"\"\n"
        " use-syslog: no\n module-config: \"iterator\"\n do-not-query-localhost: no\n local-zone: \"test.\" nodefault\n"
        "remote-control:\n control-enable: no\nforward-zone:\n name: \".\"\n forward-addr: 127.0.0.1@{upstream}\n",
    ),
    "dnsdist": (
        ["dnsdist", "--supervised", "-C"],
        "setLocal(\"127.0.0.1:{port}\")\nnewServer({{address=\"127.0.0.1:{upstream}\", checkInterval=3600}})\n"
        "setSecurityPollSuffix(\"\")\n",
    ),
}


def wire_name(text):
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".")) + b"\0"


def skip_name(message, at):
    while True:
        length = message[at]
        if length == 0 or length >= 192:
            return at + (1 if length == 0 else 2)
        at += 1 + length


def data_case(number, fields):
    """Name, type and reply of a line of rdata.txt."""
    name, rtype = wire_name(f"00.{number:04}.test"), int(fields[0])
    data = b"" if fields[1] == "-" else bytes.fromhex(fields[1])
    record = b"\xc0\x0c" + struct.pack(">HHIH", rtype, 1, 300, len(data)) + data
    head = b"\0\0\x81\x80\0\1\0\1\0\0\0\0"
    return name, rtype, head + name + struct.pack(">HH", rtype, 1) + record


def reply_case(fields):
    """Name, type and reply of a line of replies.txt."""
    reply = bytes.fromhex(fields[4])
    return reply[12:skip_name(reply, 12)], 1, reply


def serve(replies):
    """Replies over UDP and TCP by the question; NXDOMAIN to all others."""
    def answer(query):
        end = skip_name(query, 12) + 4
        reply = replies.get(query[12:end - 4].lower() + query[end - 4:end], b"\0\0\x81\x83\0\1\0\0\0\0\0\0" + query[12:end])
        return query[:2] + reply[2:12] + query[12:end] + reply[end:]

    def connection(stream):
        reader = stream.makefile("rb")
        while len(length := reader.read(2)) == 2:
            reply = answer(reader.read(struct.unpack(">H", length)[0]))
            stream.sendall(struct.pack(">H", len(reply)) + reply)

    def listen():
        while True:
            threading.Thread(target=connection, args=(tcp.accept()[0],), daemon=True).start()

    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", PORT))
    tcp = socket.create_server(("127.0.0.1", PORT))
    threading.Thread(target=listen, daemon=True).start()
    while True:
        query, client = udp.recvfrom(65535)
        udp.sendto(answer(query), client)


def ask(port, name, rtype):
    query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\1" + name + struct.pack(">HH", rtype, 1) + b"\0\0\x29\x10\0\0\0\x80\0\0\0"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(8)
        udp.connect(("127.0.0.1", port))
        udp.send(query)
        return udp.recv(65535)


def has_record(reply, rtype):
    at = skip_name(reply, 12) + 4
    for _ in range(struct.unpack(">H", reply[6:8])[0]):
        at = skip_name(reply, at)
        found, _, _, length = struct.unpack(">HHIH", reply[at:at + 10])
        if found == rtype:
            return True
        at += 10 + length
    return False


def main():
    lines = open(sys.argv[1], encoding="ascii").read().splitlines()
    is_data = not sys.argv[1].endswith("replies.txt")
    cases = [line.split(" ", 6 if is_data else 5) for line in lines if not line.startswith("#")]
    asked = [data_case(at, case) if is_data else reply_case(case) for at, case in enumerate(cases)]
    replies = {name.lower() + struct.pack(">HH", rtype, 1): reply for name, rtype, reply in asked}
    threading.Thread(target=serve, args=(replies,), daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        servers = []
        for port, (server, (command, text)) in enumerate(CONFIGS.items(), PORT + 1):
            path = f"{folder}/{server}.conf"
            with open(path, "w", encoding="ascii") as file:
                file.write(text.format(folder=folder, port=port, upstream=PORT))
            servers.append(subprocess.Popen(command + [path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        try:
            time.sleep(3)
            print("\n".join(line for line in lines if line.startswith("#")))
            for case, (name, rtype, _) in zip(cases, asked):
                answers = [ask(port, name, rtype) for port in range(PORT + 1, PORT + 4)]
                if is_data:
                    case[2:5] = ["ok" if has_record(one, rtype) else "bad" for one in answers]
                else:
                    case[0:3] = [f"{one[3] & 15}/{struct.unpack('>H', one[6:8])[0]}" for one in answers]
                print(" ".join(case))
        finally:
            for server in servers:
                server.terminate()
                server.wait()


main()
