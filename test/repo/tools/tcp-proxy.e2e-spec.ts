import { describe, expect, it } from '@jest/globals';
import { Flow } from '#tcp-proxy';
import { until } from '#until';

/** A flow, and what has arrived at its end. */
function flowing() {
  const arrived: string[] = [];
  const flow = new Flow({ writable: true, write: (chunk) => arrived.push(chunk.toString()) });
  const carry = (...pieces: string[]) => pieces.forEach((piece) => flow.carry(Buffer.from(piece)));
  return { flow, arrived, carry };
}

describe('a flow of the proxy', () => {
  it('delivers in order, also when its delay shrinks while pieces are under way', async () => {
    const { flow, arrived, carry } = flowing();
    flow.pass(50);
    carry('1', '2');
    flow.pass(10);
    carry('3');
    flow.pass();
    carry('4');
    expect(arrived).toEqual([]);
    await until(() => arrived.length === 4);
    expect(arrived).toEqual(['1', '2', '3', '4']);
  });

  it('delivers at once without a delay, and what it held in the order in which it came', () => {
    const { flow, arrived, carry } = flowing();
    carry('1');
    flow.hold();
    carry('2', '3');
    expect(arrived).toEqual(['1']);
    flow.pass();
    expect(arrived).toEqual(['1', '2', '3']);
  });

  it('loses what it is told to lose, and all while it drops', () => {
    const { flow, arrived, carry } = flowing();
    flow.loses = (chunk) => chunk.includes('message');
    carry('1', 'a message', '2');
    flow.drop();
    carry('3');
    expect(arrived).toEqual(['1', '2']);
    expect(flow.droppedBytes).toBe('a message3'.length);
  });

  it('carries in the place of each piece what it is edited to', () => {
    const { flow, arrived, carry } = flowing();
    flow.edit = (chunk) => Buffer.from(`${chunk.toString()}!`);
    carry('1', '2');
    expect(arrived).toEqual(['1!', '2!']);
  });
});
