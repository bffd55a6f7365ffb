/** No promise is rejected without anybody who handles it: Node ends a process for that. */
export function rejections({ unhandled }) {
  return unhandled.map(({ who, error }) => `${who}: nobody handled ${String(error).slice(0, 1000)}`);
}
