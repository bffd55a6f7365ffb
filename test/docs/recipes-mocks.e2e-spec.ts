import { expect, it, jest } from '@jest/globals';

it('the recipes for tests beside mocks run as they are shown: locks in memory in the place of one provider', async () => {
  const said = jest.spyOn(console, 'log').mockReturnValue(undefined);
  await import('./recipes/mocked-providers.js');
  await import('./recipes/other-locks.js');
  expect(said.mock.calls).toEqual([
    ['paid 1', ['order:1']],
    ['paid 2', ['order:2']],
  ]);
  said.mockRestore();
});
