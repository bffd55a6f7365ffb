const WIDTH = 40;
/** Where lines cannot be written over, one for each tenth is enough. */
const STEPS = 10;

/** A bar on a terminal, a few lines elsewhere. */
export function progressOf(total: number): (answered: number, sold: number) => void {
  const { stdout } = process;
  let shown = 0;
  return (answered, sold) => {
    const share = answered / total;
    const text = `${answered}/${total} buyers answered, ${sold} orders`;
    const step = Math.floor(share * (stdout.isTTY ? WIDTH : STEPS));
    if (step === shown) return;
    shown = step;
    if (!stdout.isTTY) return void stdout.write(`  ${text}\n`);
    const bar = '█'.repeat(step).padEnd(WIDTH, '░');
    stdout.write(`\r  ${bar} ${text} ${share === 1 ? '\n' : ''}`);
  };
}
