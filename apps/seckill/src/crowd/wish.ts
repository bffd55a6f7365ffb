/** The path and the body of a buyer's request. */
export interface Wish {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
}

/** @param payMs how long the payment takes, in the middle of the purchase */
export function wishFor(goodsId: number, payMs = 0): Wish {
  return { path: `/goods/${goodsId}/purchase`, body: { payMs } };
}
