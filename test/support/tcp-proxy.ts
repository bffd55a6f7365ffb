export { Flow, Link, TcpProxy } from '#tcp-proxy';
