// The witness: a process of its own that no fault touches. It keeps the register, knows who is inside, and records the
// order of what reaches it.
import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { recordTo } from '../history/recorder.mjs';
import { Register } from './register.mjs';

const record = recordTo(process.argv[2], 'witness');
const register = new Register();
/** Per key, who came in last and has not left. */
const inside = new Map();

const answers = {
  read(request) {
    const answer = register.read(request);
    if (answer.accepted) inside.set(request.key, request);
    record('read', { ...request, ...answer });
    return answer;
  },
  write(request) {
    const answer = register.write(request);
    record('write', { ...request, accepted: answer.accepted });
    return answer;
  },
  leave({ key, call }) {
    if (inside.get(key)?.call === call) inside.delete(key);
    return {};
  },
  inside: ({ key }) => ({ app: inside.get(key)?.app }),
};

const server = createServer((socket) => {
  socket.setNoDelay(true).on('error', () => undefined);
  const lines = createInterface(socket).on('line', (line) => {
    const { id, what, ...request } = JSON.parse(line);
    socket.write(`${JSON.stringify({ id, ...answers[what](request) })}\n`);
  });
  // It passes on the errors of its socket: killed processes leave in many ways.
  lines.on('error', () => undefined);
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
