/** The part of the page that is the same in each run. */
export const HOW = `
## How it is measured

**Libraries.** Each library runs with the defaults that it documents, in fresh processes with \`NODE_ENV=production\`, on one Redis server of this
machine. The floor is \`SET NX PX\` and a delete that checks the owner, with the same client as ours. On Redis 8.4 and Valkey 9 a
second floor deletes by the server's own command instead of a script. All that use
ioredis use the same version. _withLock_ is what \`@Locked\` calls: it returns the result of the work while the release is under way. _acquire + release_ awaits both, as the other libraries do. It leaves Node's \`AsyncLocalStorage\` off, which \`withLock\` needs
for nested calls and which costs each promise on Node 20. There are two exceptions to the defaults: murlock's log is off, as it
writes a line for each lock, and in \`crowd\` our callers may wait for two minutes.

**Redisson** runs in a JVM for each process, with its default settings and those of the JVM. Its owners are threads, so
100 callers of a process are 100 threads of one client. Its rows are \`RLock\`, which has no order, and \`RFairLock\`,
which has one. _Peers_ in the figures to reach are those that run in Node. The figures on Redisson there compare \`withLock\` with \`RLock\`, and have no limit.

**Time.** A turn is measured for 3 s, in fresh processes. Before it they are warmed up until each has taken 120 000 locks, for 5 s at most, and
for 1 s at most in a run of all stores. Where all ask for common keys, they are warmed up by keys of their own, and then by the common ones
for 0.5 s, in \`hop\` for a whole turn. A JVM, which compiles later and in the background, has four times as long.
All contestants of a scenario take turns, one after the other, so that a noisy minute of the machine affects all of them. Some have more turns than
others (column _turns_). The median of the turns is shown, and beside the throughput its _least_ of any turn. A wait is the time from the call to the start of the work.
A p99.9 says something where there are many times a thousand locks.
When the time is up, callers have half a second to finish. A caller that still waits then is counted with its wait so far, and
shown. A caller that was refused (_failed_) asks again at once. How long it would have had to wait is not known, so the
p99 of a library that refused some callers, or left some waiting, is not taken for the shortest.

**The best peer** is the one with most throughput, or with the lock in use for most of the time. All other figures of the
best peer in that scenario are those of the same library. Beside them stands the best figure of any peer, which has no limit.

**Growth** is judged by the largest step of what one lock costs from one size to the next. A floor of the same sizes, two bare
commands or a queue of promises within the process, shows the part of that step that is due to the machine's caches and V8's collector.

**Fairness** is Jain's index of the locks that each caller got: 1 when all got the same, 1/n when one got all.
Read it together with the p99: an unfair lock looks fast, because the caller that releases it takes it again without waiting.

**Commands** are those that clients send for one lock. \`INFO commandstats\` is read before and after. It counts the calls of
scripts under the same names. So a short run under \`MONITOR\`, which tells them apart, finds out beforehand which commands
clients send. Where a command comes from both sides the count is an estimate, marked "~".

**CPU** of Redis is \`used_cpu_user\` + \`used_cpu_sys\` of \`INFO\`. CPU of the client is that of all threads of its
processes: \`process.cpuUsage()\` of Node, \`getProcessCpuTime()\` of a JVM, garbage collection and compilers
included. **Heap** is measured after full collections.

**A quiet machine.** No table is written while other programs use more than half of a core. Before a run, and after it, the benchmark looks for
two seconds at how long the cores were busy while it only waits itself. Before, it waits five minutes for others to end. This is not the load
average, which also counts threads of the kernel that wait for a device and use no CPU.

**Network.** In \`network\` a small proxy delays the bytes of clients by a timer of 1 ms.

Run it: \`npm run bench\`. One scenario: \`npm run bench -- --only serial --seconds 3 --peers floor,redlock\`.
`;
