// SPDX-License-Identifier: Apache-2.0
//
// systemd.mjs -- what a service tells its manager (sd_notify), heard on a real socket.
//
//   const systemd = await startSystemd(t, 1000)          // WATCHDOG_USEC is a second
//   await startServer(t, { env: systemd.env })
//   await systemd.hears('READY=1')     await systemd.isAlive(5)     await systemd.givesUp()
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import { until } from './test.mjs'

// Node has no datagrams on Unix sockets.
const listener = `use IO::Socket::UNIX; use Socket; use Time::HiRes 'time';
    my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $ARGV[0]) or die;
    open(my $f, ">>", $ARGV[1]); $f->autoflush(1);
    while (defined $s->recv(my $m, 4096)) { printf $f "%d %s\\n", time * 1000, $m }`

export async function startSystemd(t, watchdogMs) {
    const socket = join(t.folder, 'notify')
    const file = join(t.folder, 'told')
    const child = spawn('perl', ['-e', listener, socket, file], { stdio: 'ignore' })
    t.defer(() => child.kill('SIGKILL'))
    await until('systemd listens', () => existsSync(socket))
    const told = () => (existsSync(file) ? readFileSync(file, 'utf8') : '')
    const alive = () => [...told().matchAll(/^(\d+) WATCHDOG=1$/gm)].map((m) => Number(m[1]))
    return {
        env: { NOTIFY_SOCKET: socket, WATCHDOG_USEC: String(watchdogMs * 1000) },
        hears: (part) => until(`systemd hears ${part}`, () => told().includes(part)),
        // So many times more.
        isAlive(times) {
            const before = alive().length
            return until('systemd is told that it is alive', () => alive().length >= before + times)
        },
        // When systemd would end the service.
        givesUp: () => until('systemd gives up', () => Date.now() - alive().at(-1) > watchdogMs),
    }
}
