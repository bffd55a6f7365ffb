/**
 * Decorators as TypeScript applies them: this project runs its benchmark without a build step.
 *
 * @param {new () => object} type @param {string} method @param {MethodDecorator[]} decorators as written, top first
 * @param {ParameterDecorator[]} parameters one for each parameter
 */
export function decorateMethod(type, method, decorators, parameters) {
  const { prototype } = type;
  parameters.forEach((decorate, index) => decorate(prototype, method, index));
  const descriptor = Object.getOwnPropertyDescriptor(prototype, method);
  for (const decorate of decorators.toReversed()) decorate(prototype, method, descriptor);
  Object.defineProperty(prototype, method, descriptor);
}
