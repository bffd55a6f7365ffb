import { describe, expect, it } from '@jest/globals';
import { KeyTemplate } from './key-template.js';

describe('what reads as a placeholder of another tool', () => {
  it.each([
    ['goods:{id}', '{id}', 'goods:<id>'],
    ['goods::id', ':id', 'goods:<id>'],
    ['goods:${id}', '${id}', 'goods:<id>'],
    ['goods:${ dto.id }', '${ dto.id }', 'goods:<dto.id>'],
    ['goods:${id ?? 0}:x', '${id ?? 0}', 'goods:<id>:x'],
    ['goods:{{id}}', '{{id}}', 'goods:<id>'],
    ['goods:#{id}', '#{id}', 'goods:<id>'],
    ['goods:{0}', '{0}', 'goods:<0>'],
    ['goods:{body.items[].sku}', '{body.items[].sku}', 'goods:<body.items[].sku>'],
    ['goods/:id/lines', ':id', 'goods/<id>/lines'],
    [':id', ':id', '<id>'],
    ['goods:#id', '#id', 'goods:<id>'],
    ['#id', '#id', '<id>'],
    ['goods:$id', '$id', 'goods:<id>'],
    ['goods:$1', '$1', 'goods:<1>'],
    ['goods:%s', '%s', 'goods:<name>'],
    ['<tenant>:goods:{id}:{user.id}', '{id}', '<tenant>:goods:<id>:<user.id>'],
    ['{<tenant>}:goods:{id}', '{id}', '{<tenant>}:goods:<id>'],
    ['{orders}:<id>', '{orders}', '<orders>:<id>'],
  ])('is refused with the right spelling: %s', (template, text, instead) => {
    const position = template.indexOf(text);
    expect(() => KeyTemplate.compile(template)).toThrow(
      `Key template "${template}" has ${text} at position ${position}, which is plain text here`,
    );
    expect(() => KeyTemplate.compile(template)).toThrow(`write "${instead}"`);
  });

  it.each([
    'nightly-report',
    'job:nightly',
    'bill.create',
    '{<tenant>}:goods:<id>',
    '{order:<id>}',
    '{tenant:<id>}:lines',
    '{tenant-1}:job',
    '{shard:7}:job',
    'goods:<id>:v2',
    'goods:<a>:<b>',
    'report#daily',
    'price-in-us$',
    '100%:<id>',
    'a%2Fb:<id>',
    'goods: all',
    'a:b:c',
    'mailto:a@b.example',
    'http://h.example/<id>',
    '[all]',
    '锁:<id>',
    '订单:nightly',
    '库存:sku:<id>',
    'café:nightly:<id>',
    'job!:nightly',
    '50%discount:<id>',
  ])('is not found in what is meant: %s', (template) => {
    expect(KeyTemplate.compile(template).text).toBe(template);
  });
});
