import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DistributedLockModule, Locked } from 'nestjs-distributed-lock';
import { decorateMethod } from './decorate.mjs';

const CALLS = 20_000;

/**
 * The cost of one call of a locked method in an application that has `count` of them, with locks in memory.
 *
 * @param {number} count @returns {Promise<number>} µs of this process's CPU
 */
export async function microsecondsPerCall(count) {
  class Goods {}
  for (let i = 0; i < count; i++) {
    Object.defineProperty(Goods.prototype, `buy${i}`, { ...METHOD, value: async (id) => id });
    decorateMethod(Goods, `buy${i}`, [Locked(`buy${i}:<id>`)], []);
  }
  Injectable()(Goods);
  class AppModule {}
  Module({ imports: [DistributedLockModule.forRoot()], providers: [Goods] })(AppModule);
  const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
  const goods = app.get(Goods);
  const call = async () => {
    for (let i = 0; i < CALLS; i++) await goods[`buy${i % count}`](i % 64);
  };
  await call();
  const before = process.cpuUsage();
  await call();
  const { user, system } = process.cpuUsage(before);
  await app.close();
  return (user + system) / CALLS;
}

const METHOD = { writable: true, enumerable: false, configurable: true };
