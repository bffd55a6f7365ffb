import { describeFlashSale } from './support/no-oversell.contract.js';

describeFlashSale('redis');
