/** The part of the page that is the same in each run. */
export const HOW = `
## How it is measured

**Contestants.** Each library with the defaults that it documents, in fresh processes, on one Redis server of this
machine. The floor is \`SET NX PX\` and a delete that checks the owner, with the same client as ours. All that use
ioredis use the same version. _withLock_ is what \`@Locked\` calls: it gives the result of the work back while the release is under
way. _acquire + release_ awaits both, as the peers do; it
leaves Node's \`AsyncLocalStorage\` off, which \`withLock\` needs for nested calls and which costs each promise on Node 20. Two exceptions to the defaults: murlock's log is off, as it
writes a line for each lock, and in \`crowd\` our callers may wait for two minutes.

**Redisson** is the real one, in a JVM for each process, with its own settings and the JVM's. Its owners are threads, so
100 callers of a process are 100 threads of one client. Its rows are \`RLock\`, which has no order, and \`RFairLock\`,
which has one. _Peers_ in the figures to reach are those that run in Node; what is said of Redisson there is \`withLock\`
beside \`RLock\`, without a promise.

**Time.** Processes are warmed up until each has taken 120 000 locks, for 5 s at most; where all want one key, by keys of
their own and then for 0.5 s, in \`hop\` for a whole run, by the common one. \`http\` and \`handler\` have 5 s. A JVM, which
compiles later and in the background, has 5 s at least and 20 s at most, and in \`hop\` 20 s more.
Ours and the floor alternate, round by round, and the median of the rounds is shown; peers take part in every third round. A wait is the time from the call to the start of the work.
When the time is up, callers have half a second to finish; whoever still waits then is counted as a wait of at least so long,
and shown. A caller that was refused (_failed_) asks again at once. How long it would have had to wait is not known, so the
p99 of a library that refused some is not taken for the shortest.

**The best peer** is the one with most throughput, or with the lock in use for most of the time; what else is said of the
best peer in that scenario is said of the same one. Beside it stands, without a limit, what any peer does best.

**Growth** is judged by the largest step of what one lock costs from one size to the next. A floor of the same sizes, two bare
commands or a queue of promises within the process, shows what of that step is the machine's caches and V8's collector.

**Fairness** is Jain's index of the locks that each caller got: 1 when all got the same, 1/n when one got all.
Read it together with the p99: an unfair lock looks fast, as the caller that has it takes it again without waiting.

**Commands** are those that clients send for one lock. \`INFO commandstats\` is read before and after; as it counts the calls of scripts under
the same names, a short run under \`MONITOR\`, which tells them apart, says beforehand which commands clients send. Where a
command comes from both sides the count is an estimate, marked "~".

**CPU** of Redis is \`used_cpu_user\` + \`used_cpu_sys\` of \`INFO\`. That of the client is what all threads of its
processes use: \`process.cpuUsage()\` of Node, \`getProcessCpuTime()\` of a JVM, garbage collection and compilers
included. **Heap** is measured after full collections.

**Network.** In \`network\` a small proxy delays what clients send by a timer of 1 ms.

Run it: \`npm run bench\`. One scenario: \`npm run bench -- --only serial --seconds 3 --peers floor,redlock\`.
`;
