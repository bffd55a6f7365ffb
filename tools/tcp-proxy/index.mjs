export { Flow } from './flow.mjs';
export { Link } from './link.mjs';
export { RespRequests } from './resp-requests.mjs';
export { SqlRequests } from './sql-requests.mjs';
export { TcpProxy } from './tcp-proxy.mjs';
