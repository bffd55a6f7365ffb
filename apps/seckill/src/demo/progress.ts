const WIDTH = 40;
/** Where lines cannot be written over, one for each tenth is enough. */
const STEPS = 10;
/** The width of a terminal that does not tell its own. */
const COLUMNS = 80;

/** How far the buyers are: a bar on a terminal, a few lines elsewhere. */
export class Progress {
  private shown = 0;
  private barIsOpen = false;

  constructor(private readonly total: number) {}

  show(answered: number, sold: number): void {
    const { stdout } = process;
    const share = answered / this.total;
    const text = `${answered}/${this.total} buyers answered, ${sold} orders`;
    // A bar that does not fit its line would be written once for each line of the terminal.
    const width = Math.max(0, Math.min(WIDTH, (stdout.columns ?? COLUMNS) - text.length - 5));
    const step = Math.floor(share * (stdout.isTTY ? WIDTH : STEPS));
    if (step === this.shown) return;
    this.shown = step;
    if (!stdout.isTTY) return void stdout.write(`  ${text}\n`);
    const bar = '█'.repeat(Math.round(share * width)).padEnd(width, '░');
    this.barIsOpen = share < 1;
    stdout.write(`\r  ${bar} ${text} ${this.barIsOpen ? '' : '\n'}`);
  }

  /** Prints a line of its own. */
  say(text: string): void {
    if (this.barIsOpen) process.stdout.write('\n');
    this.barIsOpen = false;
    console.log(`  ${text}`);
  }
}
