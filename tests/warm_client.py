"""``whale`` as a program of a shell that a server of ``warm_kit`` runs (a script).

Arguments: the function of ``whale_core.cli.main`` to call, the folder of packages that may have
grown since the server began, and those of the program. ``WARM_SERVER`` is the server's descriptor.
"""

import json
import os
import socket
import sys

function, site, *arguments = sys.argv[1:]
order = {
    "argv": ["whale", *arguments],
    "path": os.path.dirname(sys.executable),
    "site": site,
    "code": f"import sys\nfrom whale_core.cli.main import {function}\nsys.exit({function}())\n",
    "env": dict(os.environ),
    "cwd": os.getcwd(),
    "new_session": False,
}
mine, servers = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
control = socket.socket(fileno=int(os.environ["WARM_SERVER"]))
socket.send_fds(control, [json.dumps(order).encode()], [0, 1, 2, servers.fileno()])
servers.close()
mine.recv(8)  # the process id
sys.exit(int.from_bytes(mine.recv(8), "little", signed=True))
