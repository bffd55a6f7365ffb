/** What a buyer asks for: the path and the body of the request. */
export interface Wish {
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
}

export function wishFor(goodsId: number): Wish {
  return { path: `/goods/${goodsId}/purchase`, body: {} };
}
